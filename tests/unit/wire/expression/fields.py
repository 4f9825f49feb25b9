"""Fields for the tests of expressions."""

from shoal_wire.expression.checking import Environment, Field, Kind

FIELDS: Environment = {
    "name": Field(Kind.STRING, "what people call it"),
    "profile": Field(Kind.STRING, "kind of board"),
    "online": Field(Kind.BOOL, "whether it is connected"),
    "age_s": Field(Kind.NUMBER, "seconds since it was heard"),
    "labels": Field(Kind.STRING, "what people wrote on it", is_map=True),
    "runs": Field(Kind.NUMBER, "version by model", is_map=True),
}
