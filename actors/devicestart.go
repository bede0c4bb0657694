package actors

import (
	"slices"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
)

// deviceStart is one start of a device. A device with its own memory may be lost and restarted while the process runs. What was made for
// the former start is then refused with ABORTED, as after a restart of the task.
type deviceStart struct {
	executor *devices.Executor
	number   uint64 // the device's incarnation
}

func (l deviceStart) device() string { return l.executor.Attributes().Name }

func (l deviceStart) lost() bool { return l.executor.Attributes().Incarnation != l.number }

// startsOf returns the current starts of those devices that can be lost, as their executors know them.
func (t *Task) startsOf(all []devices.Device) []deviceStart {
	var starts []deviceStart
	for _, d := range all {
		if e := t.executors[d.Name()]; e.Losable() {
			starts = append(starts, deviceStart{e, e.Attributes().Incarnation})
		}
	}
	return starts
}

// restarted returns the name of a device of the plan that was restarted since the plan was compiled; "" if there is none.
func (p *compiledPlan) restarted() string {
	for _, l := range p.starts {
		if l.lost() {
			return l.device()
		}
	}
	return ""
}

func (p *compiledPlan) uses(device string) bool {
	return slices.ContainsFunc(p.starts, func(l deviceStart) bool { return l.device() == device })
}

// stale reports whether the session needs another plan: what it may use has changed, or a device of the plan was restarted and the session
// has been notified of that.
func (s *workerSession) stale(p *compiledPlan) bool {
	if p.scope != s.rights.Scope() {
		return true
	}
	if len(p.starts) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.staleLocked(p)
}

func (s *workerSession) staleLocked(p *compiledPlan) bool {
	return p.scope != s.rights.Scope() || p.restarted() != "" && !slices.ContainsFunc(s.starts, func(l deviceStart) bool { return l.lost() && p.uses(l.device()) })
}

// checkDevices fails if a device of the plan was restarted since the session began or since the plan was compiled. The session gets this
// error once for each loss.
func (s *workerSession) checkDevices(p *compiledPlan) error {
	if len(p.starts) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := p.restarted()
	for i := range s.starts {
		if l := &s.starts[i]; p.uses(l.device()) && l.lost() {
			lost, l.number = l.device(), l.executor.Attributes().Incarnation
			s.retireLocked(lost)
		}
	}
	if lost == "" {
		return nil
	}
	return status.Errorf(status.Aborted, "%s was lost and started anew: its variables and queues are gone, and have to be made again", lost)
}

// retireLocked drops the shared kernels of a device; they are made anew when needed. Steps may still run the old ones, which are closed
// with the session.
func (s *workerSession) retireLocked(device string) {
	for name, k := range s.kernels {
		if k.device == device {
			s.retired = append(s.retired, k.kernel)
			delete(s.kernels, name)
		}
	}
}
