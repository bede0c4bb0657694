package node

import (
	"testing"
	"time"
)

func TestRestartDefaults(t *testing.T) {
	for _, c := range []struct {
		given Restart
		want  Restart
	}{
		{Restart{}, Restart{5, time.Minute, 100 * time.Millisecond, 10 * time.Second}},
		{Restart{Most: 1, Within: 2, Backoff: 3, MaxBackoff: 4}, Restart{1, 2, 3, 4}},
		{Restart{Backoff: time.Hour}, Restart{5, time.Minute, time.Hour, time.Hour}},
	} {
		var k actorKind
		if err := c.given.apply(&k); err != nil || Restart(*k.restart) != c.want {
			t.Errorf("%+v became %+v: %v", c.given, k.restart, err)
		}
	}
}
