"""Version of the package; ``make manifests`` copies it from lib/VERSION."""

__version__ = "0.1.0"
