package view

import (
	"fmt"
	"testing"
)

// TestLatecomersAreBounded checks that any number of latecomers takes bounded memory, and that each is new once while it is remembered.
func TestLatecomersAreBounded(t *testing.T) {
	var l Latecomers
	const all = 3 * MaxLatecomers
	isNew := 0
	for i := range all {
		for range 2 {
			if l.Miss(Act{By: StepOrigin{Session: fmt.Sprint(i)}}) {
				isNew++
			}
		}
	}
	if isNew != all || l.Missed != all || l.Last.By.Session != fmt.Sprint(all-1) || l.known.Len() != MaxLatecomers {
		t.Errorf("%d were new and %d counted, the last of them %s; %d are known", isNew, l.Missed, l.Last.By.Session, l.known.Len())
	}
}
