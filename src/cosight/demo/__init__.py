"""The embedded demo: build digits, train, evaluate and score networks, write a page. Nothing is downloaded.

* `pipeline`  `demo` itself; networks are trained and evaluated in processes
* `report`    the page
* `me`        the user labels digits and sees how far each network is from them
"""

from cosight.demo.pipeline import Demo, Size, demo

__all__ = ["Demo", "Size", "demo"]
