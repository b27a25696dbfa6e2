"""The embedded demo: real people and networks of a sample, then the digits benchmark. Nothing is downloaded.

* `run`     `demo` itself
* `people`  the sample
* `digits`  the benchmark: networks are trained and evaluated in processes
* `size`    how large the benchmark is
* `report`  the page
* `me`      the user labels digits and sees how far each network is from them
"""

from cosight.demos.run import Demo, demo
from cosight.demos.size import Size

__all__ = ["Demo", "Size", "demo"]
