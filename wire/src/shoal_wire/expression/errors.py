"""What is wrong with an expression, and where?"""

from shoal_wire.errors import WireError


class WrongExpression(WireError):
    """Its text draws the line of the mistake, with a mark below it."""

    def __init__(self, problem: str, *, text: str, at: int) -> None:
        """`at`: characters before the mistake."""
        self.problem = problem
        self.text = text
        self.at = at
        before = text[:at]
        self.line = before.count("\n") + 1
        self.column = at - (before.rfind("\n") + 1) + 1
        drawn = text.split("\n")[self.line - 1]
        mark = "".join("\t" if one == "\t" else " " for one in drawn[: self.column - 1])
        place = f"line {self.line}, column {self.column}" if "\n" in text else f"column {self.column}"
        super().__init__(f"{place}: {problem}\n    {drawn}\n    {mark}^")
