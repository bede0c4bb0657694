"""A Troupe cluster of this program's own, beside TensorFlow's in reference.py."""
import re
import subprocess


class Troupe:
    """The tasks of `troupe up`: Troupe("path/to/troupe", ps=1, worker=2).targets["worker:0"]."""

    restartable = True

    def __init__(self, binary, **jobs):
        self._command = [binary, "up", "--tasks", ",".join("%s=%d" % job for job in jobs.items())]
        self._tasks = sum(jobs.values())
        self._process = None
        self.targets = {}
        self.start()

    def start(self):
        """Starts the tasks; also again after stop, at other addresses."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                         text=True)
        self.targets = {}
        while len(self.targets) < self._tasks:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("%s ended: %s" % (" ".join(self._command), self._process.wait()))
            found = re.match(r"/job:(\w+)/replica:0/task:(\d+)\s+(grpc://\S+)", line)
            if found:
                self.targets["%s:%s" % found.group(1, 2)] = found.group(3)

    def restart(self):
        self.stop()
        self.start()

    def running(self):
        return self._process.poll() is None

    def stop(self):
        if self.running():
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Running:
    """A cluster that somebody else runs, and restarts."""

    restartable = False

    def __init__(self, targets):
        self.targets = targets

    def running(self):
        return True

    def stop(self):
        """Nothing: it goes on."""
