package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// thisMachine reads what the system tells. What it does not tell is -1, or 0 for what may be absent.
func thisMachine() Machine {
	host, err := os.Hostname()
	if err != nil {
		host = "" // then no task's process is taken for one of this machine
	}
	m := Machine{Host: host, Processors: runtime.NumCPU(), Memory: tensor.MachineMemory(), Available: tensor.AvailableMemory(),
		SwapTotal: kibField("/proc/meminfo", "SwapTotal:"), SwapFree: kibField("/proc/meminfo", "SwapFree:"),
		TempDir: os.TempDir(), Quota: quota(""), CUDA: builtWithCUDA()}
	if n, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err == nil {
		m.GOMAXPROCS = n
	}
	if cards, err := filepath.Glob("/proc/driver/nvidia/gpus/*"); err == nil {
		m.GPUs = len(cards)
	}
	m.TempFree, m.TempError = -1, writable(m.TempDir)
	if m.TempError == "" {
		m.TempFree = roomOf(m.TempDir)
	}
	m.FileLimit = fileLimit("self")
	return m
}

// writable tells why no file can be made in a directory; empty if one can be.
func writable(dir string) string {
	f, err := os.CreateTemp(dir, "troupe-doctor-*")
	if err != nil {
		return err.Error()
	}
	if err := f.Close(); err != nil {
		return err.Error()
	}
	if err := os.Remove(f.Name()); err != nil {
		return err.Error()
	}
	return ""
}

// builtWithCUDA tells whether this binary has what runs kernels on cards.
func builtWithCUDA() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			for tag := range strings.SplitSeq(s.Value, ",") {
				if tag == "cuda" {
					return true
				}
			}
		}
	}
	return false
}

// quota is how many processors the control group of this process may use, of both versions; 0 for no limit. root comes
// before all files' names, for tests.
func quota(root string) float64 {
	if b, err := os.ReadFile(root + "/sys/fs/cgroup/cpu.max"); err == nil {
		f := strings.Fields(string(b))
		if len(f) == 2 {
			return ratio(f[0], f[1])
		}
	}
	most, err := os.ReadFile(root + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
	period, err2 := os.ReadFile(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
	if err != nil || err2 != nil {
		return 0
	}
	return ratio(string(bytes.TrimSpace(most)), string(bytes.TrimSpace(period)))
}

func ratio(most, period string) float64 {
	a, err := strconv.ParseFloat(most, 64) // "max" is no limit
	b, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}

// readProcess reads of a process what its owner may; ok is false if there is no such process.
func readProcess(pid int64) (p Process, ok bool) {
	name := strconv.FormatInt(pid, 10)
	p = Process{PID: pid, FileLimit: fileLimit(name), OpenFiles: -1, Swapped: max(kibField("/proc/"+name+"/status", "VmSwap:"), 0)}
	if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		p.OpenFiles = int64(len(list))
	}
	_, err := os.Stat("/proc/" + name)
	return p, err == nil
}

// fileLimit is the most files that a process may open; -1 where that is not known.
func fileLimit(pid string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/limits")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// kibField is a number of KiB of a file in bytes; -1 where there is none.
func kibField(file, name string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return -1
}
