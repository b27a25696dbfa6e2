"""Public data sets by name: where they are, how large, under which licence; download them or copy them from a mirror.

`data_sets` is the registry, `get` brings a set into a folder. A mirror is a folder that looks like what `get` writes:
one folder per set. It is named by `--mirror` or by the environment variable `COSIGHT_MIRROR`, and asked first. An
interrupted download is resumed; a file becomes visible only when it is complete and its checksum is right. The files of
a record at Zenodo, and their checksums, are those that the record lists.

>>> data_sets["model-vs-human"].folder
'model-vs-human'
"""

from cosight.data import published  # noqa: F401 - registers the sets
from cosight.data.entry import Archive, DataSet, Download, data_sets, folder_digest
from cosight.data.fetch import Fetched, data_folder, get

__all__ = ["Archive", "DataSet", "Download", "Fetched", "data_folder", "data_sets", "folder_digest", "get"]
