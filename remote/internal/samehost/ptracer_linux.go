package samehost

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	nobody  = 0
	anybody = -1 // PR_SET_PTRACER_ANY
)

// exception returns the exception that Yama should keep for this process, for readers other than its ancestors:
// the pid of the Adverts' only reader, nobody, or anybody.
func exception(readers map[*Advert]int) int {
	who := nobody
	for _, pid := range readers {
		switch {
		case pid == nobody || pid == who:
		case who == nobody:
			who = pid
		default:
			return anybody
		}
	}
	return who
}

// setPtracer sets Yama's exception, if the scope requires one.
func setPtracer(who int) error {
	if yamaScope() != 1 {
		return nil
	}
	err := unix.Prctl(unix.PR_SET_PTRACER, uintptr(who), 0, 0, 0)
	if errors.Is(err, unix.EINVAL) && who != nobody {
		// The reader is gone: remove the exception, so that none remains for another process.
		err = unix.Prctl(unix.PR_SET_PTRACER, nobody, 0, 0, 0)
	}
	if err != nil {
		return status.Errorf(status.PermissionDenied,
			"process %d cannot be allowed to read this one's memory (prctl PR_SET_PTRACER): %v", who, err)
	}
	return nil
}
