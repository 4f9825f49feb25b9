"""What can go wrong between raw bytes and an answer, and whose fault is it?

OperationError
├── BadPipeline   the manifest asks for what this agent can't do: refuse this release
├── BadInput      the item isn't what the pipeline takes: tell its sender, go on with the next
└── BadOutput     the model's outputs don't fit the pipeline, or aren't numbers: count it against the model
"""


class OperationError(Exception):
    """A step of pre- or post-processing refused. The message names the step, what was expected and what was found."""


class BadPipeline(OperationError):
    """An unknown operation, a wrong parameter, or steps that don't fit one another."""


class BadInput(OperationError):
    """Raw bytes of another format, or longer than allowed."""


class BadOutput(OperationError):
    """Outputs of another name or shape, or with values that are not finite."""
