from volley.api import Runs as Runs
from volley.api import load as load
from volley.api import measure as measure

__version__: str
