"""The JavaScript that draws charts.  Another process imports this module, so it imports little."""

from __future__ import annotations

import vl_convert


def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed for a page, which define ``vegaEmbed``.

    It takes two seconds, in which ``vl_convert`` lets no other thread of this process run.
    """
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
