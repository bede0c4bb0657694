package samehost

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/graph/status"
)

// chunk is how many bytes one system call reads at most. That takes about a millisecond, during which
// the thread handles no signals. Larger chunks would not be faster.
const chunk = 4 << 20

// Memory is the memory of another process of this machine. All methods may be called concurrently.
// It holds no system resources and need not be closed.
type Memory struct {
	claim claim
	proof proof
}

// Attach checks that the memory of an Advert for these parties can be read. It fails with UNIMPLEMENTED on systems other
// than Linux, INVALID_ARGUMENT for anything that is not an Advert, FAILED_PRECONDITION for one of this process, of another
// machine or of another PID namespace, PERMISSION_DENIED if the kernel forbids it or the users differ, and
// UNAVAILABLE if the process is gone or never made that Advert for these parties.
func Attach(advert []byte, parties string) (*Memory, error) {
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
	if err := foreign(c.pid); err != nil {
		return nil, err
	}
	return attach(c, parties)
}

// attach is Attach for any process of this place, including this one.
func attach(c *claim, parties string) (*Memory, error) {
	if err := sameUser(int(c.pid)); err != nil {
		return nil, err
	}
	m := &Memory{claim: *c, proof: c.proof(parties)}
	has, err := hasRecord(c.pid, c.address)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, m.explain(unix.EACCES, 0)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, m.explain(err, 0)
	case !has:
		return nil, m.gone()
	}
	if _, err := m.fetch(nil, 0, 0); err != nil {
		return nil, m.explain(err, 0)
	}
	return m, nil
}

// Read fills dst with the first bytes of what the other process lent with that ticket. After an error the contents of dst
// are undefined. It fails with INVALID_ARGUMENT if fewer bytes are lent with the ticket, with UNAVAILABLE if the
// process is gone, its pid was reused, or the Advert is closed, with PERMISSION_DENIED if the kernel no longer
// permits it, and with INTERNAL if the process lent memory that it does not have. It is fastest on one
// goroutine.
func (m *Memory) Read(dst []byte, ticket uint64) error {
	n, address := split(ticket)
	if n >= slots {
		return m.notLent(len(dst), ticket)
	}
	got, err := m.fetch(dst, address, n)
	missing := errors.Is(err, unix.EFAULT)
	if missing {
		got, err = m.fetch(nil, 0, n)
	}
	switch {
	case err != nil:
		return m.explain(err, len(dst))
	case address == 0 || got.address != address || got.size < uint64(len(dst)):
		return m.notLent(len(dst), ticket)
	case missing:
		return status.Internalf("process %d lent %d bytes at %#x, which it does not have", m.claim.pid, len(dst), address)
	}
	return nil
}

// fetch fills dst from an address, below 2^48, and returns what slot n held then. It fails with ESRCH if the process
// is not that of the Advert, and with EFAULT if it does not have that memory.
func (m *Memory) fetch(dst []byte, address, n uint64) (lent, error) {
	var last struct {
		slot  lent
		proof proof
	}
	const lastSize = int(unsafe.Sizeof(last))
	for done := 0; ; {
		part := dst[done:min(done+chunk, len(dst))]
		local := []unix.Iovec{{Base: unsafe.SliceData(part)}, {Base: (*byte)(unsafe.Pointer(&last))}}
		local[0].SetLen(len(part))
		local[1].SetLen(lastSize)
		// The kernel reads in this order. If the proof is valid at the end, it was valid while the bytes and the slot were read.
		remote := []unix.RemoteIovec{
			{Base: uintptr(address) + uintptr(done), Len: len(part)},
			{Base: uintptr(m.claim.address + slotsOffset + n*uint64(slotSize)), Len: slotSize},
			{Base: uintptr(m.claim.address), Len: proofSize},
		}
		ends := done+len(part) == len(dst)
		if !ends {
			local, remote = local[:1], remote[:1]
		}
		// The kernel looks the process up once per call, so what is read together with the proof is from the
		// Advert's process. So are the earlier parts, because a pid that another process got does not come back.
		got, err := unix.ProcessVMReadv(int(m.claim.pid), local, remote, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return lent{}, err
		case !ends || got < len(part):
			done += got
		case got < len(part)+lastSize || last.proof != m.proof:
			return lent{}, unix.ESRCH
		default:
			return last.slot, nil
		}
	}
}

func (m *Memory) notLent(n int, ticket uint64) error {
	slot, address := split(ticket)
	return status.InvalidArgumentf("process %d has not lent %d bytes at %#x in slot %d", m.claim.pid, n, address, slot)
}

func (m *Memory) gone() error {
	return status.Errorf(status.Unavailable, "process %d is gone, or has withdrawn the offer of its memory", m.claim.pid)
}

// explain converts an error of the kernel.
func (m *Memory) explain(err error, n int) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EFAULT):
		return m.gone()
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return status.Errorf(status.PermissionDenied, "the kernel does not permit reading the memory of process %d: %s",
			m.claim.pid, forbidden(yamaScope()))
	case errors.Is(err, unix.ENOSYS):
		return status.Unimplementedf("the kernel has no process_vm_readv, or a sandbox hides it")
	}
	return status.Errorf(status.Unavailable, "reading %d bytes of process %d: %v", n, m.claim.pid, err)
}

// forbidden returns what forbids reading, and what would help.
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
