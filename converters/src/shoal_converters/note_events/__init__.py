"""The note events example: a trained network that hears notes, as release folders with sounds whose score is known."""
