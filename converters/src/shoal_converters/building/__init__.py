"""From a recipe to a release folder with its report."""
