"""Runs the marked Python programs of documents, and compares what they print with the comments beside their prints.

    PS=grpc://… WORKER0=grpc://… WORKER1=grpc://… python e2e/clients/programs.py docs/tutorial.md
    python e2e/clients/programs.py --list docs/tutorial.md      prints them as JSON, with what the environment has

A mark is a comment before the program, <!-- program: NAME -->. Programs run one after the other. After the name, in this order and separated by
commas, it may say

    beside the next               the program runs at the same time as the next one
    waits                         it does not end by itself
    where TEXT is $NAME and …     what stands for what the environment has
    fails with TEXT               its error has the text
    after CODE                    what the document leaves out, which runs before it

The exit status is 1 if a program does something else.
"""
import dataclasses
import json
import os
import re
import subprocess
import sys

LIMIT = 60  # seconds for a program
WAITS = 15  # seconds after which a program that waits does so

MARK = re.compile(
    r"<!-- program: (?P<name>\w+)(?P<beside>, beside the next)?(?P<waits>, waits)?(, where (?P<where>[^,]*?))?"
    r"(, fails with (?P<fails>.*?))?(, after (?P<after>.*?))? -->\n```python\n(?P<text>.*?)```",
    re.S,
)


@dataclasses.dataclass
class Program:
    name: str
    text: str
    beside: bool = False
    waits: bool = False
    fails: str = ""
    prints: list = dataclasses.field(default_factory=list)  # the comments beside its prints

    def start(self, python, env):
        return subprocess.Popen([python, "-c", self.text], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def problem(self, process):
        """What is wrong with a process that runs the program, or None."""
        try:
            out, problems = process.communicate(timeout=WAITS if self.waits else LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            _, problems = process.communicate()
            return None if self.waits else problems + "\nit did not end within %d s" % LIMIT
        if self.waits:
            return "it ended\n" + problems
        if self.fails:
            return None if process.returncode != 0 and self.fails in problems else "it did not fail with %s\n%s" % (self.fails, problems)
        if process.returncode != 0:
            return problems.strip() or "exit code %d" % process.returncode
        if self.prints and out.split("\n")[:-1] != self.prints:
            return "it printed %r, not %r" % (out, self.prints)
        return None


def marked(path, env):
    """The programs of a document."""
    with open(path, encoding="utf-8") as f:
        document = f.read()
    found = []
    for m in MARK.finditer(document):
        text = m["text"]
        for pair in (m["where"] or "").split(" and "):
            if pair:
                stands, name = pair.split(" is $")
                if stands not in text:
                    raise ValueError("%s: the program %s does not have %s" % (path, m["name"], stands))
                text = text.replace(stands, env[name])
        found.append(Program(m["name"], (m["after"] or "") + "\n" + text, bool(m["beside"]), bool(m["waits"]), m["fails"] or "", re.findall(r"^ *print\(.*\)  # (.*)$", text, re.M)))
    if len(found) != document.count("\n```python\n"):
        raise ValueError("%s has %d programs, and %d of them with a mark" % (path, document.count("\n```python\n"), len(found)))
    return found


def run(python, programs, env):
    """What does not work of the programs: {name: the error}."""
    running, wrong = [], {}
    for program in programs:
        running.append((program, program.start(python, env)))
        if program.beside:
            continue
        for started, process in running:
            problem = started.problem(process)
            if problem:
                wrong[started.name] = problem
        running = []
    return wrong


def main():
    if sys.argv[1:2] == ["--list"]:
        print(json.dumps([dataclasses.asdict(p) for p in marked(sys.argv[2], os.environ)]))
        return 0
    failed = False
    for path in sys.argv[1:]:
        programs = marked(path, os.environ)
        wrong = run(sys.executable, programs, os.environ)
        for name, why in wrong.items():
            print("%s: %s: %s" % (path, name, why))
        print("%s: %d programs" % (path, len(programs)))
        failed = failed or bool(wrong) or not programs
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
