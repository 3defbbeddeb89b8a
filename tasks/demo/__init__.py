"""What the demo needs beside the shop: servers, third parties and mail on loopback, and a till."""
