"""How is a rollout steered that goes on, or taken back? `shoal rollout pause`, `resume`, `roll-back`, `retry`"""

import argparse
from collections.abc import Sequence

from shoal_fleet.command.client import Client
from shoal_fleet.command.output import print_result
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.views import RolloutDetail, parse


def add_parsers(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> Sequence[argparse.ArgumentParser]:
    """Add the commands; returns their parsers, which take the number of a rollout."""
    pause = add_command(
        actions,
        "pause",
        summary="tell no more devices",
        description="Tell no more devices of a rollout in waves. Those that were told go on.",
        example="shoal rollout pause 12",
        run=lambda arguments: _steer(arguments, "pause"),
    )
    resume = add_command(
        actions,
        "resume",
        summary="go on with a paused rollout",
        description="Go on with a paused rollout. A gate that paused it is asked again at once.",
        example="shoal rollout resume 12",
        run=lambda arguments: _steer(arguments, "resume"),
    )
    back = add_command(
        actions,
        "roll-back",
        summary="have devices run again what they ran before",
        description="Stop a rollout, and have the devices that took the release run again what they ran before: by\n"
        "rollouts of their own, which the command names. What they ran must still be allowed.",
        example="shoal rollout roll-back 12 --wave 1",
        run=_roll_back,
    )
    back.add_argument("--wave", type=int, metavar="N", help="the devices of this wave alone; the rollout goes on")
    again = add_command(
        actions,
        "retry",
        summary="try the devices that failed once more",
        description="Try the devices of a rollout that failed once more, by a new rollout of the same release.",
        example="shoal rollout retry 12",
        run=lambda arguments: _steer(arguments, "retry"),
    )
    return pause, resume, back, again


def _steer(arguments: argparse.Namespace, verb: str) -> None:
    with Client() as client:
        shown = client.post(f"/api/v1/rollouts/{arguments.id}/{verb}", {})
    rollout = parse(shown, RolloutDetail, what="rollout")
    print_result(shown, as_json=arguments.json, text=f"rollout {rollout.id} is {rollout.state}")


def _roll_back(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"/api/v1/rollouts/{arguments.id}/roll-back", {"wave": arguments.wave})
    begun = parse(shown, list[RolloutDetail], what="rollouts")
    text = "\n".join(f"rollout {one.id} takes {len(one.devices)} back to {one.release} {one.version}" for one in begun)
    print_result(shown, as_json=arguments.json, text=text)
