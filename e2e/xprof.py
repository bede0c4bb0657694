"""Opens a profile with XProf, the profile plugin of TensorBoard, and prints the names of the events that its trace viewer has, by process.

It needs the package xprof of PyPI, and no TensorFlow: python xprof.py LOGDIR
"""
import glob
import json
import os
import sys

sys.path.pop(0)  # this folder, which has a file of the package's name
from xprof.convert import raw_to_tool_data  # pylint: disable=wrong-import-position

files = sorted(glob.glob(os.path.join(sys.argv[1], "plugins", "profile", "*", "*.xplane.pb")))
processes, names = {}, {}
for number, path in enumerate(files):  # the viewer takes one at a time
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], "trace_viewer", {})
    for event in json.loads(data)["traceEvents"]:
        key = (number, event.get("pid"))
        if event.get("name") == "process_name":
            processes[key] = "%s: %s" % (os.path.basename(path), event["args"]["name"])
        elif event.get("ph") == "X":
            names.setdefault(key, set()).update([event["name"], str(event.get("args", {}).get("long_name", ""))])
json.dump({processes[p]: sorted(n) for p, n in names.items()}, sys.stdout)
