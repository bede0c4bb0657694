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

// thisMachine reads what the system reports. Unknown values are -1, or 0 for what may be absent.
func thisMachine() Machine {
	host, err := os.Hostname()
	if err != nil {
		host = "" // then no task's process is considered to be on this machine
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

// writable returns why no file can be created in a directory; empty if one can.
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

// builtWithCUDA reports whether this binary can run kernels on GPUs.
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

// quota returns how many processors the control group of this process, of either version, may use; 0 means no limit.
// root is put before all file names, for tests.
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

// readProcess reads what the owner of a process may read of it; ok is false if there is no such process.
func readProcess(pid int64) (p Process, ok bool) {
	name := strconv.FormatInt(pid, 10)
	p = Process{PID: pid, FileLimit: fileLimit(name), OpenFiles: -1, Swapped: max(kibField("/proc/"+name+"/status", "VmSwap:"), 0)}
	if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		p.OpenFiles = int64(len(list))
	}
	_, err := os.Stat("/proc/" + name)
	return p, err == nil
}

// fileLimit returns how many files a process may open, or -1 if that is not known.
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

// kibField returns a field of a file that is in KiB, in bytes, or -1 if there is none.
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
