package actors

import (
	"slices"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
)

// life is one start of a device. A device with memory of its own may be lost and started anew while the
// process lives: what was made for the life before is refused then with ABORTED, as after a restart of the
// task.
type life struct {
	device devices.Device
	number uint64 // the device's incarnation
}

func (l life) over() bool { return l.device.Incarnation() != l.number }

// mortal are the present lives of those devices that may be lost.
func mortal(all []devices.Device) []life {
	var lives []life
	for _, d := range all {
		if d.Type() != "CPU" {
			lives = append(lives, life{d, d.Incarnation()})
		}
	}
	return lives
}

// outlived names a device of the plan that was started anew since the plan was compiled; "" if there is none.
func (p *taskPlan) outlived() string {
	for _, l := range p.lives {
		if l.over() {
			return l.device.Name()
		}
	}
	return ""
}

func (p *taskPlan) uses(device string) bool {
	return slices.ContainsFunc(p.lives, func(l life) bool { return l.device.Name() == device })
}

// useless tells whether a plan is outlived and the session has been told so: another one has to be compiled.
func (s *workerSession) useless(p *taskPlan) bool {
	if len(p.lives) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uselessLocked(p)
}

func (s *workerSession) uselessLocked(p *taskPlan) bool {
	return p.outlived() != "" && !slices.ContainsFunc(s.lives, func(l life) bool { return l.over() && p.uses(l.device.Name()) })
}

// fit refuses to run a plan on a device that was started anew since the session began: the session is told
// once of each loss, like its plans that were compiled before.
func (s *workerSession) fit(p *taskPlan) error {
	if len(p.lives) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := p.outlived()
	for i := range s.lives {
		if l := &s.lives[i]; p.uses(l.device.Name()) && l.over() {
			lost, l.number = l.device.Name(), l.device.Incarnation()
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
