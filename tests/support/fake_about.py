"""What tests of which job and others share."""

from fake_engine import ABOUT
from volley.launch.engine import About, FaultAbout, TransportAbout

ABOUT_FAKE = About(
    version="0.1.0",
    transports=tuple(TransportAbout(**each) for each in ABOUT["transports"]),  # type: ignore[attr-defined]
    faults=tuple(FaultAbout(**each) for each in ABOUT["faults"]),  # type: ignore[attr-defined]
)
