package containers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/containers/internal/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/durable"
	"google.golang.org/protobuf/proto"
)

// id names a resource within its container. Resources of different kinds may share a name.
type id struct{ kind, name string }

// store is the contents of a container. It is not safe for concurrent use: a shell calls it serially.
type store struct {
	container string
	resources map[id]Resource
	kept      *keeping             // nil if the container is not durable
	cells     map[id]*durable.Cell // where the state of durable resources is
}

func newStore(container string, kept *keeping) *store {
	return &store{container: container, resources: map[id]Resource{}, kept: kept, cells: map[id]*durable.Cell{}}
}

// create makes a resource.
type create func() (Resource, error)

// answer is a container's reply: a resource, a listing with its resources, or an error.
type answer struct {
	resource Resource
	dropped  []<-chan error // the deletion of a removed resource's durable state
	found    *wire.Found
	listed   []Resource
	err      error
}

// serve answers a message. make and cell belong to a LookupOrCreate.
func (s *store) serve(message proto.Message, make create, cell *durable.Cell) answer {
	switch m := message.(type) {
	case *wire.LookupOrCreate:
		return s.lookupOrCreate(id{m.Kind, m.Name}, make, cell)
	case *wire.Lookup:
		return s.lookup(id{m.Kind, m.Name})
	case *wire.Remove:
		i := id{m.Kind, m.Name}
		a := s.lookup(i)
		delete(s.resources, i)
		if c, ok := s.cells[i]; ok {
			delete(s.cells, i)
			a.dropped = append(a.dropped, drop(c))
		}
		return a
	case *wire.List:
		return s.list()
	}
	return answer{err: status.Internalf("A container was sent a %T", message)}
}

func (s *store) lookupOrCreate(i id, make create, cell *durable.Cell) answer {
	if r, ok := s.resources[i]; ok {
		return answer{resource: r}
	}
	r, err := make.guarded(i)
	if err != nil {
		return answer{err: err}
	}
	if r == nil {
		return answer{err: status.Internalf("Creating the resource %s/%s/%s returned nothing.", s.container, i.name, i.kind)}
	}
	if cell != nil {
		s.cells[i] = cell
	} else if err := s.keep(i, r); err != nil {
		return answer{err: errors.Join(err, closeGuarded(i, r))}
	}
	s.resources[i] = r
	return answer{resource: r}
}

// guarded makes the resource. A panic of create leaves the container unchanged, so it becomes an error for the caller and has no other
// effect.
func (c create) guarded(i id) (r Resource, err error) {
	defer contain.Recover(nil, "Making the "+i.kind+" "+i.name, func(e error) { r, err = nil, e })
	return c()
}

func (s *store) lookup(i id) answer {
	if r, ok := s.resources[i]; ok {
		return answer{resource: r}
	}
	return answer{err: status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", s.container, i.name, i.kind)}
}

func (s *store) list() answer {
	a := answer{found: &wire.Found{}}
	ids := make([]id, 0, len(s.resources))
	for i := range s.resources {
		ids = append(ids, i)
	}
	slices.SortFunc(ids, func(a, b id) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	for _, i := range ids {
		a.found.Resources = append(a.found.Resources, &wire.Resource{Kind: i.kind, Name: i.name})
		a.listed = append(a.listed, s.resources[i])
	}
	return a
}

// drain closes all resources and returns them. A resource whose Close panics does not keep the others open; the error is the first such
// panic.
func (s *store) drain() (d drained) {
	for k, r := range s.resources {
		delete(s.resources, k)
		if c, ok := s.cells[k]; ok {
			d.cells = append(d.cells, c)
		}
		if e := closeGuarded(k, r); d.err == nil {
			d.err = e
		}
		d.closed = append(d.closed, r)
	}
	return d
}

// drained is what a container held when it ended.
type drained struct {
	closed []Resource
	cells  []*durable.Cell // where their durable state is, which is still there
	err    error           // from closing them
}

func closeGuarded(k id, r Resource) (err error) {
	defer contain.Recover(nil, "Closing the "+k.kind+" "+k.name, func(e error) { err = e })
	r.Close()
	return nil
}

// Describe returns a description of a resource for people, such as the dtype and shape of a variable or the state of a queue.
func Describe(r Resource) string {
	if d, ok := r.(interface{ Describe() string }); ok {
		return d.Describe()
	}
	return fmt.Sprintf("%T", r)
}
