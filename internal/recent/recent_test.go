package recent

import (
	"slices"
	"testing"
)

// slow is a Map without any cleverness: all additions in their order.
type slow struct {
	most int
	all  []addition
}

type addition struct {
	key, value int
	gone       bool
}

func (s *slow) add(key, value int) {
	s.remove(key)
	s.all = append(s.all, addition{key: key, value: value})
	if len(s.all) > s.most {
		s.all = s.all[1:]
	}
}

func (s *slow) find(key int) int {
	return slices.IndexFunc(s.all, func(a addition) bool { return a.key == key && !a.gone })
}

func (s *slow) remove(key int) bool {
	i := s.find(key)
	if i >= 0 {
		s.all[i].gone = true
	}
	return i >= 0
}

// FuzzMap compares a map with a slow one: each byte adds, deletes or looks up one of eight keys.
func FuzzMap(f *testing.F) {
	f.Add(uint8(3), []byte{0, 1, 2, 3, 0x42, 4, 0x80, 0x81, 0x82, 0x83, 0x84})
	f.Add(uint8(2), []byte{0, 0, 0, 0x80, 0x40, 1, 2, 0, 3, 0x80})
	f.Fuzz(func(t *testing.T, most uint8, commands []byte) {
		n := int(most%8) + 1
		m, s := NewMap[int, int](n), &slow{most: n}
		for i, c := range commands {
			key := int(c & 7)
			switch c >> 6 {
			case 0:
				m.Add(key, i)
				s.add(key, i)
			case 1:
				if got, want := m.Delete(key), s.remove(key); got != want {
					t.Fatalf("command %d: Delete(%d) is %v, not %v", i, key, got, want)
				}
			default:
				got, ok := m.Get(key)
				at := s.find(key)
				if ok != (at >= 0) || ok && got != s.all[at].value {
					t.Fatalf("command %d: Get(%d) is %d, %v; want %v", i, key, got, ok, at)
				}
			}
			live := 0
			for _, a := range s.all {
				if !a.gone {
					live++
				}
			}
			if m.Len() != live || m.Len() > n || len(m.order) > n {
				t.Fatalf("command %d: %d entries in %d places, want %d of %d", i, m.Len(), len(m.order), live, n)
			}
		}
	})
}

func TestMapReusesItsMemory(t *testing.T) {
	m := NewMap[uint64, error](64)
	i := uint64(0)
	add := func() {
		m.Add(i, nil)
		i++
	}
	for range 1000 {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n > 0 {
		t.Errorf("an addition to a full map allocates %v times", n)
	}
}
