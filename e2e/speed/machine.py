"""What figures say of the machine that they were measured on."""


def processor():
    """The processor's name."""
    with open("/proc/cpuinfo") as f:
        return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
