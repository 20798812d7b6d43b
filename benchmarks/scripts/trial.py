"""200 batches of one layer, and a validation, as a trial of Determined, with its script."""

import torch
from determined import pytorch


class OneLayer(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

    def build_training_data_loader(self):
        data = torch.utils.data.TensorDataset(torch.randn(800, 1))
        return pytorch.DataLoader(data, batch_size=4, shuffle=True)

    def build_validation_data_loader(self):
        data = torch.utils.data.TensorDataset(torch.randn(80, 1))
        return pytorch.DataLoader(data, batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch[0]).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"validation_loss": self.model(batch[0]).pow(2).mean()}


if __name__ == "__main__":
    with pytorch.init(hparams={"global_batch_size": 4}) as context:
        trial = OneLayer(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(200), checkpoint_policy="none")
