"""200 batches of one layer, and a validation, in plain PyTorch."""

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (numbers,) in DataLoader(TensorDataset(torch.randn(800, 1)), batch_size=4, shuffle=True):
    loss = model(numbers).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    losses = [
        model(numbers).pow(2).mean()
        for (numbers,) in DataLoader(TensorDataset(torch.randn(80, 1)), batch_size=4)
    ]
print(float(torch.stack(losses).mean()))
