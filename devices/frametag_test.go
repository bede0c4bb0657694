package devices

import "testing"

// The number is one that TensorFlow 2.21 used for the loop of a function with a node "while".
func TestForeignTag(t *testing.T) {
	if got := foreignTag(0, 0, "while"); got != 6315961604705615773 {
		t.Errorf("the loop has number %d", got)
	}
	for name, want := range map[string]uint64{"": 0x81769421199f9e3b, "while/_1": 0xcd6bd25518818c1d, "loop/while": 0xdbcf1e136f245b25} {
		if got := hash64(name); got != want {
			t.Errorf("the hash of %q is %#x, want %#x", name, got, want)
		}
	}
}
