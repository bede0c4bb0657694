package journal

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// stream is the variable in which systemd names the device and inode of a service's stream to the journal. A child whose standard error was
// redirected inherits the variable, but not the stream.
const stream = "JOURNAL_STREAM"

func isJournal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv(stream) == "" {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv(stream) == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
