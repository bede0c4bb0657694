package containers

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// Resource is anything that lives in a container.
type Resource interface {
	// Close ends the resource when it leaves its container; what waits on it fails.
	Close()
}

type key struct{ container, kind, name string }

// Manager holds the containers of one device.
type Manager struct {
	device, defaultContainer string
	mu                       sync.Mutex
	resources                map[key]Resource
}

// NewManager makes the containers of a device. defaultContainer is what the empty container name stands for.
func NewManager(device, defaultContainer string) *Manager {
	return &Manager{device: device, defaultContainer: defaultContainer, resources: map[key]Resource{}}
}

func (m *Manager) key(container, kind, name string) key {
	if container == "" {
		container = m.defaultContainer
	}
	return key{container, kind, name}
}

// LookupOrCreate returns the resource of that container, kind and name, made with create where there is none.
func (m *Manager) LookupOrCreate(container, kind, name string, create func() (Resource, error)) (Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.key(container, kind, name)
	if r, ok := m.resources[k]; ok {
		return r, nil
	}
	r, err := create()
	if err != nil {
		return nil, err
	}
	m.resources[k] = r
	return r, nil
}

// Lookup returns a resource, or NOT_FOUND.
func (m *Manager) Lookup(container, kind, name string) (Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.resources[m.key(container, kind, name)]; ok {
		return r, nil
	}
	return nil, status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", container, name, kind)
}

// Delete closes and removes a resource; NOT_FOUND where there is none.
func (m *Manager) Delete(container, kind, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.key(container, kind, name)
	r, ok := m.resources[k]
	if !ok {
		return status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", container, name, kind)
	}
	delete(m.resources, k)
	r.Close()
	return nil
}

// Clear closes and removes everything in a container.
func (m *Manager) Clear(container string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := m.key(container, "", "").container
	for k, r := range m.resources {
		if k.container == want {
			delete(m.resources, k)
			r.Close()
		}
	}
}
