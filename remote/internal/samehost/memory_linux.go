package samehost

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/graph/status"
)

// chunk is how many bytes one system call reads at most, which takes a millisecond or so: the thread
// serves no signal meanwhile. Larger ones would not be faster.
const chunk = 4 << 20

// Memory is the memory of another process of this machine. All methods may be called concurrently.
// It holds nothing of the system's, and needs no end.
type Memory struct {
	claim claim
	proof proof
}

// Attach checks that the memory of an Advert can be read. It fails with UNIMPLEMENTED on systems other
// than Linux, INVALID_ARGUMENT for what is no advert, FAILED_PRECONDITION for one of another machine or
// PID namespace, PERMISSION_DENIED where the kernel or the difference of users forbids it, and
// UNAVAILABLE where the process is gone or never made that Advert.
func Attach(advert []byte) (*Memory, error) {
	c, err := parse(advert)
	if err != nil {
		return nil, err
	}
	here, err := whereabouts()
	if err != nil {
		return nil, err
	}
	if err := c.in(here); err != nil {
		return nil, err
	}
	if err := sameUser(int(c.pid)); err != nil {
		return nil, err
	}
	m := &Memory{claim: *c, proof: c.proof()}
	if err := m.Read(nil, 0); err != nil {
		return nil, err
	}
	return m, nil
}

// Read fills dst from an address of the other process. What dst holds after an error is undefined. It
// fails with UNAVAILABLE when the process is gone, is another one now, or has closed the Advert, with
// PERMISSION_DENIED when the kernel does not permit it any more, and with INTERNAL for an address that
// the process does not have. It is fastest on one goroutine.
func (m *Memory) Read(dst []byte, address uint64) error {
	if address > math.MaxUint-uint64(len(dst)) {
		return m.explain(unix.EFAULT, len(dst), address)
	}
	var got proof
	for done := 0; ; {
		part := dst[done:min(done+chunk, len(dst))]
		local := []unix.Iovec{{Base: unsafe.SliceData(part)}, {Base: &got[0]}}
		local[0].SetLen(len(part))
		local[1].SetLen(proofSize)
		remote := []unix.RemoteIovec{
			{Base: uintptr(address) + uintptr(done), Len: len(part)},
			{Base: uintptr(m.claim.address), Len: proofSize},
		}
		last := done+len(part) == len(dst)
		if !last {
			local, remote = local[:1], remote[:1]
		}
		// The kernel looks the process up once for each call: what comes with the proof is of its
		// process. So are the parts before, since a pid that another process got does not come back.
		n, err := unix.ProcessVMReadv(int(m.claim.pid), local, remote, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return m.explain(err, len(dst), address)
		case !last || n < len(part):
			done += n
		case n < len(part)+proofSize || got != m.proof:
			return m.gone()
		default:
			return nil
		}
	}
}

func (m *Memory) gone() error {
	return status.Errorf(status.Unavailable, "process %d is gone, or has withdrawn the offer of its memory", m.claim.pid)
}

// explain says in words what the kernel means.
func (m *Memory) explain(err error, n int, address uint64) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return m.gone()
	case errors.Is(err, unix.EFAULT):
		if n > 0 && m.Read(nil, 0) == nil {
			return status.Internalf("process %d announced %d bytes at %#x, which it does not have", m.claim.pid, n, address)
		}
		return m.gone()
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return status.Errorf(status.PermissionDenied, "the kernel does not permit reading the memory of process %d: %s",
			m.claim.pid, forbidden(yamaScope()))
	case errors.Is(err, unix.ENOSYS):
		return status.Unimplementedf("the kernel has no process_vm_readv, or a sandbox hides it")
	}
	return status.Errorf(status.Unavailable, "reading %d bytes of process %d: %v", n, m.claim.pid, err)
}

// forbidden tells who forbids it, and what would help.
func forbidden(scope int) string {
	switch scope {
	case 0:
		return "it runs with more privileges or as another user, or a sandbox forbids process_vm_readv " +
			"(seccomp; older versions of Docker need --cap-add=SYS_PTRACE)"
	case 1:
		return "kernel.yama.ptrace_scope is 1, and the process has not allowed this one to read it"
	}
	return fmt.Sprintf("kernel.yama.ptrace_scope is %d; 1 or 0 would do", scope)
}
