package devices

import (
	"bytes"
	"os"
	"strconv"
	"sync"
)

// machineMemory is the bytes of memory that the process may come to use: the machine's, or less in
// a control group with a limit of its own. 0 where the system does not tell.
var machineMemory = sync.OnceValue(func() int64 {
	total := meminfo("MemTotal:")
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if limit := number(file); limit > 0 && (total < 0 || limit < total) {
			total = limit
		}
	}
	return max(total, 0)
})

// availableMemory is the bytes that can be had without swapping; -1 where the system does not tell.
func availableMemory() int64 {
	available := meminfo("MemAvailable:")
	if limit, used := number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current"); limit > 0 && used >= 0 {
		if left := limit - used; available < 0 || left < available {
			available = left
		}
	}
	return available
}

// meminfo reads a field of Linux's /proc/meminfo, in bytes; -1 elsewhere.
func meminfo(field string) int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == field {
			if kib, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				return kib << 10
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
