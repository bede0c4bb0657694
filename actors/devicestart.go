package actors

import (
	"slices"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
)

// deviceStart is one start of a device. A device with memory of its own may be lost and started anew while the
// process starts: what was made for the former start is refused then with ABORTED, as after a restart of the
// task.
type deviceStart struct {
	executor *devices.Executor
	number   uint64 // the device's incarnation
}

func (l deviceStart) device() string { return l.executor.Attributes().Name }

func (l deviceStart) lost() bool { return l.executor.Attributes().Incarnation != l.number }

// startsOf are the present starts of those devices that may be lost, as their executors know them.
func (t *Task) startsOf(all []devices.Device) []deviceStart {
	var starts []deviceStart
	for _, d := range all {
		if e := t.executors[d.Name()]; e.Losable() {
			starts = append(starts, deviceStart{e, e.Attributes().Incarnation})
		}
	}
	return starts
}

// restarted names a device of the plan that was started anew since the plan was compiled; "" if there is none.
func (p *taskPlan) restarted() string {
	for _, l := range p.starts {
		if l.lost() {
			return l.device()
		}
	}
	return ""
}

func (p *taskPlan) uses(device string) bool {
	return slices.ContainsFunc(p.starts, func(l deviceStart) bool { return l.device() == device })
}

// stale tells whether a plan is restarted and the session has been told so: another one has to be compiled.
func (s *workerSession) stale(p *taskPlan) bool {
	if len(p.starts) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.staleLocked(p)
}

func (s *workerSession) staleLocked(p *taskPlan) bool {
	return p.restarted() != "" && !slices.ContainsFunc(s.starts, func(l deviceStart) bool { return l.lost() && p.uses(l.device()) })
}

// checkDevices refuses to run a plan on a device that was started anew since the session began: the session is told
// once of each loss, like its plans that were compiled before.
func (s *workerSession) checkDevices(p *taskPlan) error {
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

// retireLocked has the shared kernels of a device made anew when they are wanted again. Steps may still
// run the old ones: they are closed with the session.
func (s *workerSession) retireLocked(device string) {
	for name, k := range s.kernels {
		if k.device == device {
			s.retired = append(s.retired, k.kernel)
			delete(s.kernels, name)
		}
	}
}
