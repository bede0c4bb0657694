package http2

import "time"

// Frames without useful data cost a client next to nothing and are therefore limited. Calls and data earn a client
// further ones, many times as many as it can need. A client that sends only such frames has overheadBurst of them and
// overheadRate a second.
const (
	// overheadBurst is how many frames without useful data a connection may send at once, and overheadRate how many a second:
	// PINGs, SETTINGS, window updates, resets, priorities, frames of unknown types, parts of header lists, and data that is
	// tiny or not needed.
	overheadBurst = 1 << 14
	overheadRate  = 1 << 10
	// overheadPerCall is how many frames a call earns, and overheadBytes how many bytes of data, sent or received, earn one.
	overheadPerCall = 16
	overheadBytes   = 1 << 10
	// tinyData is the size in bytes below which data that does not end a request counts as such a frame.
	tinyData = 256
)

// overheadBudget limits a connection's frames without useful data. It is owned by the reader.
type overheadBudget struct {
	left   int
	filled int64  // when left was last refilled
	sent   uint64 // bytes that the connection had sent then
}

// chargeOverhead counts a frame without useful data. It returns an error if there were too many.
func (c *serverConn) chargeOverhead() error {
	if c.overhead.left--; c.overhead.left >= 0 {
		return nil
	}
	c.mu.Lock()
	sent := c.total
	c.mu.Unlock()
	k := &c.overhead
	now := clock()
	earned := int64(sent-k.sent)/overheadBytes + (now-k.filled)*overheadRate/int64(time.Second)
	if earned <= 0 {
		return broken(codeCalm, "more than %d frames without useful data, and more than %d a second", overheadBurst, overheadRate)
	}
	k.left, k.filled, k.sent = int(min(earned, overheadBurst))-1, now, sent
	return nil
}

// earnOverhead allows the connection more frames without useful data.
func (c *serverConn) earnOverhead(frames int) {
	c.overhead.left = min(c.overhead.left+frames, overheadBurst)
}
