package containers

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
)

// id names a resource within its container. Resources of different kinds may share a name.
type id struct{ kind, name string }

// store is what a container holds. It knows nothing of concurrency: a shell calls it serially.
type store struct {
	container string
	resources map[id]Resource
}

func newStore(container string) *store {
	return &store{container: container, resources: map[id]Resource{}}
}

// message is a request to a container.
type message interface{ apply(s *store) answer }

// answer is a container's reply: a resource, a listing, or an error.
type answer struct {
	resource Resource
	found    []found
	err      error
}

type found struct {
	id
	resource Resource
}

type lookupOrCreate struct {
	id
	create func() (Resource, error)
}

func (m lookupOrCreate) apply(s *store) answer {
	if r, ok := s.resources[m.id]; ok {
		return answer{resource: r}
	}
	r, err := m.guarded()
	if err != nil {
		return answer{err: err}
	}
	if r == nil {
		return answer{err: status.Internalf("Making the resource %s/%s/%s gave nothing.", s.container, m.name, m.kind)}
	}
	s.resources[m.id] = r
	return answer{resource: r}
}

// guarded makes the resource. The container is as it was when create panics, so the panic
// costs the one who asked an error and nobody else anything.
func (m lookupOrCreate) guarded() (r Resource, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, status.Internalf("Making the %s %s panicked: %v\n%s", m.kind, m.name, p, debug.Stack())
		}
	}()
	return m.create()
}

type lookup struct{ id }

func (m lookup) apply(s *store) answer {
	if r, ok := s.resources[m.id]; ok {
		return answer{resource: r}
	}
	return answer{err: s.missing(m.id)}
}

// remove takes a resource out; whoever asked closes it.
type remove struct{ id }

func (m remove) apply(s *store) answer {
	r, ok := s.resources[m.id]
	if !ok {
		return answer{err: s.missing(m.id)}
	}
	delete(s.resources, m.id)
	return answer{resource: r}
}

type list struct{}

func (list) apply(s *store) answer {
	var all []found
	for k, r := range s.resources {
		all = append(all, found{k, r})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	return answer{found: all}
}

func (s *store) missing(i id) error {
	return status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", s.container, i.name, i.kind)
}

// drain closes everything and gives what it closed. A resource whose Close panics does not keep
// the others open; the first such panic is the error.
func (s *store) drain() (closed []Resource, err error) {
	for k, r := range s.resources {
		delete(s.resources, k)
		if e := closeGuarded(k, r); err == nil {
			err = e
		}
		closed = append(closed, r)
	}
	return closed, err
}

func closeGuarded(k id, r Resource) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Internalf("Closing the %s %s panicked: %v\n%s", k.kind, k.name, p, debug.Stack())
		}
	}()
	r.Close()
	return nil
}

func describe(r Resource) string {
	if d, ok := r.(interface{ Describe() string }); ok {
		return d.Describe()
	}
	return fmt.Sprintf("%T", r)
}
