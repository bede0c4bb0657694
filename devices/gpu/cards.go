package gpu

import (
	"sync"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/graph/status"
)

// Cards adapts a driver's cards for servers.
func Cards(driver Driver) devices.GPUs { return &found{driver: driver} }

// found holds the cards of the last listing.
type found struct {
	driver Driver

	mu    sync.Mutex
	cards []Card
}

// Cards lists the cards.
func (f *found) Cards() ([]cards.Card, error) {
	list, err := f.driver.Cards()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.cards = list
	f.mu.Unlock()
	var described []cards.Card
	for _, c := range list {
		i := c.Info()
		described = append(described, cards.Card{Name: i.Name, PCI: i.PCI, Memory: i.Memory, Compute: i.Compute, Processors: i.Processors})
	}
	return described, nil
}

// Open makes a device on a card of the last listing.
func (f *found) Open(plan cards.Device, at devices.Place) (devices.Device, error) {
	f.mu.Lock()
	list := f.cards
	f.mu.Unlock()
	if plan.Card < 0 || plan.Card >= len(list) {
		return nil, status.Internalf("There is no card %d for %s, of %d cards", plan.Card, at.Name, len(list))
	}
	d, err := Open(Options{Card: list[plan.Card], Index: plan.Card, Name: at.Name, Job: at.Job, System: at.System, Host: at.Host,
		MemoryLimit: plan.MemoryLimit, AllowGrowth: plan.AllowGrowth, Log: at.Log})
	if err != nil {
		return nil, err
	}
	return d, nil
}
