"""How do all tests run? Hypothesis has no deadline: these machines are shared, and a slow example is no fault."""

from hypothesis import settings

settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")
