//go:build !unix

package http2

// peek tells whether there is something to read, and whether the other end has not closed the connection, as
// far as this one knows.
func (c *Client) peek() (waiting, alive bool) { return c.in.buffered() > 0, true }
