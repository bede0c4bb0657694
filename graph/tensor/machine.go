package tensor

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

// MachineMemory is the bytes of memory that the process may come to use: the machine's, or less in a control group with
// a limit of its own. It is 0 where the system does not tell.
var MachineMemory = sync.OnceValue(func() int64 { return machine{}.total() })

// AvailableMemory is the bytes that can be had without swapping; -1 where the system does not tell.
func AvailableMemory() int64 { return machine{}.available() }

// DefaultProcessMemory is the limit of Process unless the operator sets one: four fifths of MachineMemory. The rest is
// for garbage that was not collected yet, stacks, and the buffers of the system.
func DefaultProcessMemory() int64 { return MachineMemory() / 5 * 4 }

// machine reads what Linux tells of memory. root is put before all names of files, for tests.
type machine struct{ root string }

// group is a control group of the process's, or one above it.
type group struct{ dir, limit, used, reclaimable string }

// groups finds the control groups that bound the process's memory, of both versions. A container often sees its own
// group as the root, under a name of the host's.
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

// meminfo is a field of /proc/meminfo in bytes; -1 where there is none.
func (m machine) meminfo(name string) int64 {
	kib := field(m.root+"/proc/meminfo", name)
	if kib < 0 {
		return -1
	}
	return kib << 10
}

// field is the number that follows a name at the beginning of a line; -1 where there is none.
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

// number reads a file that holds one number; -1 where there is no such file, or another word in it.
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
