"""Has the board what an agent is built on?"""

from hil.board import Board

# Gone after a power cut, whatever was synced.
VOLATILE_FILESYSTEMS = {"tmpfs", "ramfs"}


def test_python_is_new_enough(board: Board) -> None:
    assert board.run_probe("machine")["python"] >= [3, 11]


def test_kernel_seals_memory_files(board: Board) -> None:
    assert board.run_probe("sealed_memory") == {"write_refused": True, "resize_refused": True, "content": "weights"}


def test_child_ends_with_a_parent_that_is_killed(board: Board) -> None:
    assert board.run_probe("parent_death") == {"child_started": True, "child_ended": True}


def test_file_is_replaced_durably_on_a_disk(board: Board) -> None:
    answer = board.run_probe("durable_folder")

    assert answer["content"] == "after"
    assert answer["filesystem"] not in VOLATILE_FILESYSTEMS
