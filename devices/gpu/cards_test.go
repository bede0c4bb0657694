package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/graph/status"
)

// closedDriver lists cards that cannot be opened.
type closedDriver struct {
	infos []Info
	err   error
}

func (d *closedDriver) Cards() (list []Card, err error) {
	for _, i := range d.infos {
		list = append(list, closedCard{i})
	}
	return list, d.err
}

type closedCard struct{ info Info }

func (c closedCard) Info() Info             { return c.info }
func (c closedCard) Open() (Context, error) { return nil, errors.New("it is closed") }

func TestCardsOfADriver(t *testing.T) {
	d := &closedDriver{err: errors.New("no driver is there")}
	all := Cards(d)
	if list, err := all.Cards(); list != nil || !errors.Is(err, d.err) {
		t.Errorf("got %v, %v", list, err)
	}
	*d = closedDriver{infos: []Info{{Name: "A", PCI: "1", Memory: 5, Compute: 90, Processors: 7, SharedMemory: 9}, {Name: "B"}}}
	want := []cards.Card{{Name: "A", PCI: "1", Memory: 5, Compute: 90, Processors: 7}, {Name: "B"}}
	if list, err := all.Cards(); !slices.Equal(list, want) || err != nil {
		t.Errorf("got %v, %v", list, err)
	}
	const name = "/job:w/replica:0/task:0/device:GPU:0"
	for card, wrong := range map[int]string{1: "B cannot be used as " + name + ": it is closed", 2: "There is no card 2 for " + name + ", of 2 cards",
		-1: "There is no card -1"} {
		device, err := all.Open(cards.Device{Card: card, MemoryLimit: 1 << 20}, devices.Place{Name: name, Job: "w"})
		if err == nil || device != nil || !strings.HasPrefix(err.Error(), wrong) || status.CodeOf(err) == status.OK {
			t.Errorf("card %d: %v, %v", card, device, err)
		}
	}
}
