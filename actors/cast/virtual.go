package cast

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// A virtual actor has no task of its own. It is addressed by its kind and an identity, and begins with its first message, on the task that
// its identity hashes to among the members of the placement's view. There it is an ordinary performer, named KIND/IDENTITY. It ends when it
// has been idle, when its identity moves to another task, and when its task loses its lease. A request that it had not begun by then is sent anew,
// to where the identity lives afterwards.

// Virtual makes the actors of a kind virtual.
type Virtual struct {
	// Job is the job that they live in; empty for all tasks whose programs have virtual kinds.
	Job string
	// Idle is how long an actor without messages lives.
	Idle time.Duration
	// Always are identities that live without messages.
	Always []string
}

// virtualTask begins the Task of a reference to a virtual actor. The rest is its kind.
const virtualTask = "/kind:"

// VirtualRef returns the reference to a virtual actor.
func VirtualRef(kind, identity string) Ref { return Ref{virtualTask + kind, identity} }

// IsVirtual reports whether a Ref's task stands for a kind of virtual actors.
func IsVirtual(task string) bool { return strings.HasPrefix(task, virtualTask) }

// relocateWithin bounds how long a message to a virtual actor waits for a task where the actor may live, each time that it has none. A request may have
// waited for its actor for hours when that moves: an attempt that took relocated was at a task, since none takes so long to find that it cannot be reached.
const (
	relocateWithin = 15 * time.Second
	relocateFirst  = 20 * time.Millisecond
	relocateLast   = 500 * time.Millisecond
	relocated      = time.Minute
)

func elsewhere(format string, args ...any) error {
	return notBegun(status.Errorf(status.Unavailable, format, args...))
}

// virtualOf splits the name of a performer of a virtual kind of this program.
func (s *Cast) virtualOf(name string) (kind, identity string, v *Virtual) {
	kind, identity, ok := strings.Cut(name, "/")
	if !ok {
		return "", "", nil
	}
	if k := s.kinds[kind]; k != nil && k.Virtual != nil {
		return kind, identity, k.Virtual
	}
	return "", "", nil
}

// virtualize returns a reference to a virtual actor in place of one to its performer.
func (s *Cast) virtualize(r Ref) Ref {
	if kind, identity, v := s.virtualOf(r.Name); v != nil {
		return VirtualRef(kind, identity)
	}
	return r
}

// locate returns the performer that a virtual actor has, or is to have. Its error is notBegun if the actor has no task now.
func (s *Cast) locate(r Ref) (Ref, error) {
	kind := strings.TrimPrefix(r.Task, virtualTask)
	k := s.kinds[kind]
	if k == nil || k.Virtual == nil {
		return r, status.Errorf(status.NotFound, "The program of %s has no virtual actors of kind %q", s.config.Self, kind)
	}
	name := kind + "/" + r.Name
	if err := checkName(name); err != nil {
		return r, err
	}
	task, err := s.home(name, k.Virtual)
	return Ref{task, name}, err
}

// home returns the task of a virtual actor.
func (s *Cast) home(name string, v *Virtual) (string, error) {
	view := s.placer.view.Load()
	if view == nil {
		return "", elsewhere("%s cannot know where %s lives: it reaches no majority of %s", s.config.Self, name, s.placer.votersText())
	}
	task := view.home(name, v)
	if task == "" {
		return "", elsewhere("No task of the job %q is there for %s to live on", v.Job, name)
	}
	return task, nil
}

// anew calls do until its error is not notBegun, or ctx or a time has ended. With wait false, it calls do once.
func (s *Cast) anew(ctx context.Context, wait bool, do func() error) error {
	err := do()
	for pause, end := relocateFirst, (time.Time{}); wait && outcomeOf(err).unbegun; {
		now := time.Now()
		if end.IsZero() { // most messages do not wait
			end = now.Add(relocateWithin)
		}
		if now.Add(pause).After(end) {
			break
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return status.From(ctx.Err())
		case <-s.life.Done():
			t.Stop()
			return s.stopping
		}
		pause = min(2*pause, relocateLast)
		began := time.Now()
		if err = do(); time.Since(began) >= relocated {
			pause, end = relocateFirst, time.Time{}
		}
	}
	return begun(err)
}

// activateLocked returns a new performer of a virtual actor that is to live here. The caller starts it with launch when it has released mu.
func (s *Cast) activateLocked(kind, identity string, v *Virtual, client string) (*performer, error) {
	name := kind + "/" + identity
	if !s.placer.begins(name, v) {
		return nil, elsewhere("The virtual actor %s does not live on %s now", name, s.config.Self)
	}
	p, err := s.addLocked(name, nil, s.kinds[kind], Ref{}, nil, client)
	if err != nil {
		return nil, err
	}
	p.always = slices.Contains(v.Always, identity)
	p.unlaunched.Store(true)
	return p, nil
}

// launch starts a performer that activateLocked has returned, and does nothing for others.
func (s *Cast) launch(p *performer) {
	if p.unlaunched.Load() && p.unlaunched.CompareAndSwap(true, false) {
		s.start(p)
	}
}

// keepUp begins the virtual actors that always live, and are to live here.
func (s *Cast) keepUp() {
	for kind, k := range s.kinds {
		if k.Virtual == nil {
			continue
		}
		for _, identity := range k.Virtual.Always {
			s.mu.Lock()
			p, err := s.receiverLocked(kind+"/"+identity, "")
			s.mu.Unlock()
			switch {
			case err == nil:
				s.launch(p)
			case !outcomeOf(err).unbegun && s.life.Err() == nil:
				s.log.Error("a virtual actor that always lives did not begin", "kind", kind, "identity", identity, "error", err)
			}
		}
	}
}

// virtuals returns the task's virtual actors.
func (s *Cast) virtuals() []*performer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.virtual))
}

// passivate makes a virtual actor end if it is still idle.
type passivate struct{}

// idles reports whether a virtual actor has been idle for long, at sweeps of the task's actors that are every apart. Only the sweeper calls it.
func (p *performer) idles(every time.Duration) bool {
	n := uint32(p.begun.Load())
	if n != p.swept || p.queued() > 0 || p.always {
		p.swept, p.idleSweeps = n, 0
		return false
	}
	p.idleSweeps++
	return time.Duration(p.idleSweeps)*every >= p.kind.Virtual.Idle
}

// lapsed returns an error for a virtual actor whose task has no lease.
func (p *performer) lapsed() error {
	if p.kind.Virtual == nil || p.cast.placer.acts() {
		return nil
	}
	return elsewhere("The virtual actor %s on %s has lost its lease", p.name, p.cast.config.Self)
}

// retire ends a virtual actor that is idle, and frees its name. over is false if it goes on.
func (p *performer) retire() (over bool, why error) {
	s := p.cast
	s.mu.Lock()
	busy := p.held != nil
	s.mu.Unlock()
	if busy || p.queued() > 0 || p.life.asking > 0 {
		return false, nil
	}
	p.restash()            // only notices are there
	err := p.life.end(nil) // before another performer may begin
	s.mu.Lock()
	p.mu.Lock()
	if over = p.stopping.Load() || p.queue.empty() && int(p.next) == len(p.taken.items); over {
		p.ended, p.retired = true, true
		s.removeLocked(p)
	} else {
		p.life = newLife(p)
	}
	p.mu.Unlock()
	s.mu.Unlock()
	if err != nil {
		s.log.Warn("a virtual actor that was idle could not be closed", "actor", p.name, "error", err)
	}
	if over {
		_, why = p.leaving()
		return true, why
	}
	if err := p.begin(); err != nil {
		return p.fail(nil, Failure{Err: err})
	}
	return false, nil
}
