package containers

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
)

// Durable is a resource whose state can outlive its process.
type Durable interface {
	Resource
	// About describes the resource, so that another process can make it anew. It fails if the state cannot be kept.
	About() ([]byte, error)
	// Keep makes the resource's state durable in cell, which is empty, from now on. It is called before the resource is shared.
	Keep(cell *durable.Cell)
	// State records all of the resource's state, as Keep would, whether it is durable or not.
	State(r durable.Recorder)
}

// Ephemeral is a resource without state that could outlive its process, such as a mutex. Durable containers hold it as it is.
type Ephemeral interface {
	Resource
	Ephemeral()
}

// keeping is how a manager's durable containers are kept.
type keeping struct {
	store    *durable.Store
	device   string // as in the store: the device's full name
	lasting  Lasting
	pictures *Pictures
}

// Lasting reports whether a container is durable, and how often pictures of its variables are taken: 0 if they are written at every step.
type Lasting func(container string) (every time.Duration, lasts bool)

// Keep makes the containers durable that lasting selects: what happens to their resources goes to the store of pictures, under the manager's
// device. It must be called before the manager is used. If pictures is nil, resources in these containers are refused.
func (m *Manager) Keep(pictures *Pictures, lasting Lasting) {
	m.kept = &keeping{device: m.device, lasting: lasting, pictures: pictures}
	if pictures != nil {
		m.kept.store = pictures.store
	}
}

// IsDurable reports whether a container's state outlives its process. The empty name stands for the default container.
func (m *Manager) IsDurable(container string) bool { return m.keepingOf(m.resolve(container)) != nil }

func (m *Manager) keepingOf(container string) *keeping {
	if m.kept == nil || IsStepName(container) {
		return nil
	}
	if _, lasts := m.kept.lasting(container); !lasts {
		return nil
	}
	return m.kept
}

// every returns how often pictures of a durable container's variables are taken, or 0.
func (k *keeping) every(container string) time.Duration {
	every, _ := k.lasting(container)
	return every
}

// Restore puts a resource that store has kept into its container. It must be called before the container is used.
func (m *Manager) Restore(cell *durable.Cell, container, kind, name string, r Resource) error {
	a := m.ask(container, func(q *request) {
		q.lookupOrCreate.Kind, q.lookupOrCreate.Name = kind, name
		q.message, q.create, q.cell = &q.lookupOrCreate, func() (Resource, error) { return r, nil }, cell
	})
	return a.err
}

// Adopt puts a resource that comes from another task into a container, which may be durable, and takes it over. If there is one of that kind and
// name already, the error is ALREADY_EXISTS.
func (m *Manager) Adopt(container, kind, name string, r Resource) error {
	var made atomic.Bool
	_, err := m.LookupOrCreate(container, kind, name, func() (Resource, error) {
		made.Store(true)
		return r, nil
	})
	if made.Load() {
		return err
	}
	if err == nil {
		err = status.Errorf(status.AlreadyExists, "the container %s has a %s %s already", m.resolve(container), kind, name)
	}
	return errors.Join(err, closeGuarded(id{kind, name}, r))
}

// private reports whether a resource belongs to a session, which ends with its process.
func private(name string) bool { return strings.HasPrefix(name, "_") }

// keep makes a new resource of the container durable, or refuses it.
func (s *store) keep(i id, r Resource) error {
	k := s.kept
	if k == nil || private(i.name) {
		return nil
	}
	if _, ok := r.(Ephemeral); ok {
		return nil
	}
	if k.store == nil {
		return status.Errorf(status.FailedPrecondition, "the container %s is durable, and resources in the memory of %s cannot be kept: place %s %s on a CPU, or use another container",
			s.container, k.device, i.kind, i.name)
	}
	d, ok := r.(Durable)
	if !ok {
		return status.Errorf(status.FailedPrecondition, "the container %s is durable, and a %s such as %s cannot be kept: use another container (tf.container)", s.container, i.kind, i.name)
	}
	about, err := d.About()
	if err != nil {
		return err
	}
	v, isVariable := r.(*Variable)
	byPictures := isVariable && k.every(s.container) > 0
	if isVariable {
		if err := v.keepable(v.value, byPictures); err != nil { // one that comes from another task has a value
			return err
		}
	}
	need := durable.Adds(len(about) + durable.Size(d.State))
	if byPictures {
		need = need.InPieces(pieceBytes)
	}
	if err := k.store.Admits(need); err != nil {
		return err
	}
	cell, err := k.store.Create(durable.Place{Device: k.device, Container: s.container, Kind: i.kind, Name: i.name}, about)
	if err != nil {
		return err
	}
	if byPictures {
		v.keepBy(cell, k.pictures, k.every(s.container))
	} else {
		d.Keep(cell)
	}
	s.cells[i] = cell
	return nil
}

// drop deletes the durable state of a resource. Another resource of that name may be made at once. The channel receives the error, or nil when
// the deletion is on disk.
func drop(c *durable.Cell) <-chan error {
	ended := make(chan error, 1)
	c.Drop(func(err error) { ended <- err })
	return ended
}

// dropAll deletes what is durable of a container that is being cleared, also if the container has failed. The caller holds mu.
func (m *Manager) dropAll(container string) (dropped []<-chan error) {
	k := m.keepingOf(container)
	if k == nil || k.store == nil {
		return nil
	}
	for _, c := range k.store.At(k.device, container) {
		dropped = append(dropped, drop(c))
	}
	return dropped
}

// await waits until deletions are on disk.
func await(dropped []<-chan error, wait time.Duration) error {
	if len(dropped) == 0 { // as at the end of most steps
		return nil
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for _, ended := range dropped {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-limit.C:
			return status.Errorf(status.DeadlineExceeded, "the deletion of durable resources did not reach the disk within %v", wait)
		}
	}
	return nil
}
