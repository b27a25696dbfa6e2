"""The embedded job: digits are built, networks trained, asked and scored, and a page written. Nothing is downloaded.

* job        what is done, in order; `demo` itself
* networks   training and asking, in processes side by side
* report     what a reader sees of it
* me         the person at the keyboard labels digits, and sees how far each network is from them
"""

from cosight.demo.pipeline import Demo, Size, demo

__all__ = ["Demo", "Size", "demo"]
