package containers

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestNamesAreUTF8 checks that resource names that cannot be listed, or sent to another task, are refused.
func TestNamesAreUTF8(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		for _, container := range []string{"", "a", StepName(1)} {
			_, err := m.LookupOrCreate(container, "Var", "\xff", func() (Resource, error) {
				t.Errorf("it is made in %q", container)
				return nil, nil
			})
			wantCode(t, err, status.InvalidArgument, "names are UTF-8")
		}
		if all, err := m.List(); err != nil || len(all) != 0 {
			t.Errorf("there is %v, %v", all, err)
		}
	})
}
