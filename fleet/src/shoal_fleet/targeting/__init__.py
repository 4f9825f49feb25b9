"""Which devices does an expression mean?"""
