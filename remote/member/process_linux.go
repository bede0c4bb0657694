package member

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// maxCountedFiles bounds how many open files are counted one by one.
const maxCountedFiles = 1 << 16

// askSystem adds what the system knows of the process. Unknown values stay 0.
func askSystem(p *view.Process) {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		p.CpuSeconds = (time.Duration(used.Utime.Nano()) + time.Duration(used.Stime.Nano())).Seconds()
	}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(statm); len(fields) > 1 {
			if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				p.Resident = pages * int64(os.Getpagesize())
			}
		}
	}
	p.OpenFiles = openFiles()
}

// openFiles counts the process's open files. Since Linux 6.2, the size of the directory is their number.
func openFiles() int64 {
	const folder = "/proc/self/fd"
	if info, err := os.Stat(folder); err == nil && info.Size() > 0 {
		return info.Size()
	}
	d, err := os.Open(folder)
	if err != nil {
		return 0
	}
	defer d.Close()
	names, err := d.Readdirnames(maxCountedFiles)
	if err != nil {
		return 0
	}
	return int64(len(names)) - 1 // without the directory itself
}
