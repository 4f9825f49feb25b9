"""Who says what time it is?"""

from collections.abc import Callable

Clock = Callable[[], float]
"""Unix seconds. `time.time` in the program; tests give their own."""
