package tensor

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

// MachineMemory returns the bytes of memory that the process may use: the machine's memory, or the limit of its control group if that is
// lower. It returns 0 if the system does not say.
var MachineMemory = sync.OnceValue(func() int64 { return machine{}.total() })

// AvailableMemory returns the bytes that can be allocated without swapping, or -1 if the system does not say.
func AvailableMemory() int64 { return machine{}.available() }

// DefaultProcessMemory returns the limit of Process unless the operator sets one: MachineMemory less a fifth of it, or less leastOverhead
// if that is more. The rest is for uncollected garbage, stacks, the program itself and system buffers.
func DefaultProcessMemory() int64 { return processMemory(MachineMemory()) }

// leastOverhead is what a process needs beyond its live memory. If the machine has less than twice that, half of the machine's memory is
// used instead.
const leastOverhead = 96 << 20

func processMemory(machine int64) int64 {
	return machine - max(machine/5, min(leastOverhead, machine/2))
}

// RuntimeMemory returns the memory limit for Go's runtime, at which it collects garbage all the time, for a process that may hold limit
// live bytes. It is above limit, but no more than the machine or the control group has: beyond that, the kernel would kill the process.
func RuntimeMemory(limit int64) int64 { return runtimeMemory(limit, MachineMemory()) }

const (
	// garbageMargin is the least room for garbage beyond limit, in bytes.
	garbageMargin = 64 << 20
	// outsideRuntime is the memory of a process that Go's runtime does not count: its program, and kernel buffers.
	outsideRuntime = 24 << 20
)

func runtimeMemory(limit, machine int64) int64 {
	want := limit + limit/8 + garbageMargin
	if most := machine - max(machine/32, outsideRuntime); machine > 0 && limit < most {
		want = min(want, most)
	}
	return want
}

// machine reads Linux's memory information. root is prefixed to all file names, for tests.
type machine struct{ root string }

// group is a control group of the process, or one of its ancestors.
type group struct{ dir, limit, used, reclaimable string }

// groups returns the control groups, of both versions, that limit the process's memory. A container often sees its own group as the root,
// under a name that is the host's.
func (m machine) groups() (list []group) {
	b, err := os.ReadFile(m.root + "/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		var mounts []string
		g := group{limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", reclaimable: "total_inactive_file"}
		switch {
		case fields[1] == "":
			mounts = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
			g = group{limit: "memory.max", used: "memory.current", reclaimable: "inactive_file"}
		case strings.Contains(","+fields[1]+",", ",memory,"):
			mounts = []string{"/sys/fs/cgroup/memory"}
		}
		for _, mount := range mounts {
			for name := path.Clean("/" + fields[2]); ; name = path.Dir(name) {
				g.dir = m.root + path.Join(mount, name)
				list = append(list, g)
				if name == "/" {
					break
				}
			}
		}
	}
	return list
}

func (m machine) total() int64 {
	total := m.meminfo("MemTotal:")
	for _, g := range m.groups() {
		if limit := number(path.Join(g.dir, g.limit)); limit > 0 && (total < 0 || limit < total) {
			total = limit
		}
	}
	return max(total, 0)
}

func (m machine) available() int64 {
	available := m.meminfo("MemAvailable:")
	for _, g := range m.groups() {
		limit, used := number(path.Join(g.dir, g.limit)), number(path.Join(g.dir, g.used))
		if limit <= 0 || used < 0 {
			continue
		}
		left := limit - used + max(field(path.Join(g.dir, "memory.stat"), g.reclaimable), 0)
		if left = max(left, 0); available < 0 || left < available {
			available = left
		}
	}
	return available
}

// meminfo returns a field of /proc/meminfo in bytes, or -1 if it does not exist.
func (m machine) meminfo(name string) int64 {
	kib := field(m.root+"/proc/meminfo", name)
	if kib < 0 {
		return -1
	}
	return kib << 10
}

// field returns the number that follows name at the beginning of a line, or -1 if there is none.
func field(file, name string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == name {
			if n, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// number returns the number that a file consists of, or -1 if the file does not exist or is not a number.
func number(file string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
