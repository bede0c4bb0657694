package devices

import (
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
)

// machineMemory is how many bytes this process may have: the machine's memory, or less where a
// control group says so. It is 0 where the system does not tell. A tensor beyond it is refused;
// asking the Go runtime for it would end the process.
var machineMemory = sync.OnceValue(func() int64 {
	least := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		least = min(least, memTotal(string(text)))
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
})

// memTotal finds the machine's memory in /proc/meminfo, which counts in units of 1024 bytes.
func memTotal(text string) int64 {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxInt64
}
